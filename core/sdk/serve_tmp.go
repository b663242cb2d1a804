package sdk

func serve(Plugin) {}
