package main

func pool(a *asm) {}
