// Package conventions keeps the rules of this module that a program can check: which package may import which, and how
// source files look. It consists of tests only; each rule and its exceptions stand beside the test that keeps it.
//
// It must not know what the packages do. It starts no goroutines and has no locks.
package conventions
