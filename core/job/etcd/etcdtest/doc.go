// Package etcdtest runs a real etcd for tests.
//
// It imports nothing of trainctl. Start with Start.
package etcdtest
