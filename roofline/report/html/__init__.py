"""Reports as one HTML file: it loads nothing, runs only the script whose hash it states, and shows names without obeying them."""
