"""What was built, on one page: time, area, what quantisation cost, and what was proven."""
