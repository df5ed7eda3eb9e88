// Package parents has no code: its tests run the policies of chashgrpc as children of
// grpc-go's own policies, priority, weighted_target and outlier_detection, which xDS
// makes, with a control plane and servers on loopback; and have chashprom collect from
// a channel. It is a module of its own, so that chashgrpc does not depend on what that
// takes.
package parents
