"""The peers of the GPU benchmark. Each module has `open(device)`, which gives a peer or raises ImportError
with what is missing; peer.candidates(case, tensors) maps labels to functions that do the case's work once on
those tensors (PyTorch's, on the device), or is empty where the peer does not do such work. What a function
raises when first called is reported in its row, and ends that candidate only."""
