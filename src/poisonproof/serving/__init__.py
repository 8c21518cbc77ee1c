"""A kept run answers for new samples: files in blocks, or requests over HTTP."""
