"""What expressions multiply and divide of data: products of two tensors, and the shares of a softmax."""
