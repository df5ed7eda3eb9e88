module github.com/chash-go/chash/benchmarks

go 1.25.0

replace github.com/chash-go/chash => ../

replace github.com/chash-go/chash/contrib/chashcompat => ../contrib/chashcompat

require (
	github.com/authzed/consistent v0.4.0
	github.com/buraksezer/consistent v1.0.0
	github.com/cespare/xxhash/v2 v2.3.0
	github.com/chash-go/chash v0.0.0
	github.com/chash-go/chash/contrib/chashcompat v0.0.0-00010101000000-000000000000
	github.com/dchest/siphash v1.2.2
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f
	github.com/golang/groupcache v0.0.0-20241129210726-2c02b8208cf8
	github.com/kkdai/maglev v0.2.0
	github.com/serialx/hashring v0.0.0-20200727003509-22c0c7ab6b1b
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/twmb/murmur3 v1.1.8 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)
