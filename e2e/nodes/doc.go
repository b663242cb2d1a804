// Package nodes holds the end-to-end tests of jobs of several machines, most of them in network
// namespaces: how they find each other (nodes_test.go), who may join (join_test.go) and
// what strangers can do (siege_test.go), machines that come and go (elastic_test.go), also
// with etcd (etcd_test.go).
package nodes
