package main

import "github.com/trainctl/trainctl/cmd/trainctl/command"

func main() { command.Main() }
