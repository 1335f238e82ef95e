"""Figures of reports: SVG written here, to the same bytes for the same input, and the roofline as text for a terminal.

Arithmetic ends before the drawing: `roofs`, `marks`, `stages` say what is shown, the other modules where it stands on the page.
"""
