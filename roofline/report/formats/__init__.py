"""Reports, comparisons and file problems in the formats of other tools, one file a format; views without arithmetic of their own."""
