// Package bootjartest makes applications of Spring Boot's layout.
package bootjartest

import (
	"os"
	"testing"

	"tare.dev/tare/internal/testkit/jartest"
)

// Write makes a jar of Spring Boot's layout around the jar of the demo service, which
// is named "a service.jar" in it. Files of extra come on top.
func Write(t testing.TB, name, sysinfo string, extra map[string]string) {
	t.Helper()
	service, err := os.ReadFile(sysinfo)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"META-INF/MANIFEST.MF": "Manifest-Version: 1.0\r\nMain-Class: org.springframework.boot.loader.launch.JarLauncher\r\nStart-Class: dev.tare.sysinfo.Main\r\n" +
			"Spring-Boot-Classes: BOOT-INF/classes/\r\nSpring-Boot-Lib: BOOT-INF/lib/\r\nImplementation-Version: 1.2\r\n\r\n",
		"org/springframework/boot/loader/launch/JarLauncher.class": "no class",
		"BOOT-INF/classes/application.properties":                  "greeting=hello\n",
		"BOOT-INF/lib/a service.jar":                               string(service),
	}
	for k, v := range extra {
		files[k] = v
	}
	jartest.Write(t, name, files)
}
