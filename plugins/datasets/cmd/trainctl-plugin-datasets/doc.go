// Command trainctl-plugin-datasets serves one of the built-in data sets as a
// separate plugin binary. It takes the data set's name from its first argument, or
// else from its file name: linked as trainctl-plugin-synthetic it serves synthetic.
// Under its own name it serves mnist.
//
// It imports core/sdk and plugins/datasets.
package main
