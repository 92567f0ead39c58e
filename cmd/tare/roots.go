package main

// Where a system has no certificates of authorities, as in tare's own image, registries
// and stores are known by Mozilla's.
import _ "golang.org/x/crypto/x509roots/fallback"
