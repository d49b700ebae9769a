// Package version says which version of codeq this is. It owns that one constant, starts no goroutines and has no locks.
package version

// Number is the version that is being developed or was released; CHANGELOG.md says what is in it.
const Number = "0.1.0"
