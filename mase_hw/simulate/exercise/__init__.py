"""What a simulation exercised: queues, edges and casts, and the stalls inside a design that exercise them."""
