package main

func half(a *asm) {}
