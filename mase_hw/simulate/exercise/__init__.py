"""What a simulation exercised: buffers, edges and casts, and the stalls inside a design that exercise them."""
