// Package contract has the tests of what both structures promise whatever the backends
// are, from outside: that they do what their twin does, that few keys move, that a reader
// sees one whole state, and that the mapping is that of the golden vectors. What single
// calls do is tested beside their sources.
package contract
