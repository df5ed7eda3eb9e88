// Package readme has the tests of the documents: that what they say of the code is so.
package readme
