// Package pb is the control protocol between the host and a plugin: the
// messages generated from plugin.proto, the handshake, and the layout of the
// arguments that travel in submission slots. Plugin authors use package sdk.
//
// It imports nothing else of this module. Start with handshake.go and
// plugin.proto.
package pb

//go:generate go -C gen run . ..
