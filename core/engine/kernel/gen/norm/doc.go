// Package norm is the kernels of normalisation, of pooling, and of both at once. families.go
// lists them.
package norm
