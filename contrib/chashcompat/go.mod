module github.com/chash-go/chash/contrib/chashcompat

go 1.24

require (
	github.com/cespare/xxhash/v2 v2.3.0
	github.com/chash-go/chash v0.0.0
	github.com/stretchr/testify v1.11.1
	github.com/twmb/murmur3 v1.1.8
)

require (
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)

replace github.com/chash-go/chash => ../../
