module codeq/e2e

go 1.26.8

require codeq v0.0.0

replace codeq => ../
