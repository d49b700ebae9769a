// Package lua is a Lua 5.1 machine: values, tables, a compiler and an interpreter, behaving as the reference implementation in version 5.1.5 with the
// changes that Redis 7.0 has made to it: read-only tables.
//
// It owns what a value is, the code of functions and how it is carried out, tables down to the order of their keys, coroutines, the texts of
// the errors that the language itself raises, and the counts of steps and of memory by which a run can be bounded. It has no libraries: a host makes
// them of functions in Go, and gives them to a chunk as its global variables. It must not know Redis, commands or replies.
//
// Layout: value.go, number.go and table.go are values; code.go says what instructions there are, compile*.go makes them from the tree of package
// luaparse; runtime.go, thread.go and call.go are threads and their frames; exec.go is the loop that carries instructions out, ops.go and meta.go what
// it leaves to functions; coroutine.go, describe.go (names for error messages), memory.go (what is held).
//
// Errors are panics of *Error between Throw and the protected call around it; any other panic is a fault of the machine or of a library and passes.
// A Runtime and its threads belong to one goroutine at a time; a Proto is never changed and may be shared. The package starts no goroutines and has no
// locks.
//
// Values are built with package unsafe (value.go): a value's second word says what its pointer points to. What it buys is that
// numbers need no allocation, strings no header, and each instruction half the memory traffic of interfaces.
package lua
