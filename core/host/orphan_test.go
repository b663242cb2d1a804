package host_test

func beHost() {}
