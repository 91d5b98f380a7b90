"""Products and whole passes on a CPU as compiled code, from weights of 8 or 16 bits; `kernels.c` is built by
`python -m scripts.kernels` and checked in for the processors in `library.BUILDS`."""
