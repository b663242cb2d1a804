// Package python is the SDK for plugins in Python, in the folder trainctl, and example
// plugins. Go needs the examples alone, from which plugins new starts.
//
// The tables of the protocol in trainctl/zz_protocol.py are generated from core/sdk/pb,
// core/contract and core/tensor by this package's test.
package python
