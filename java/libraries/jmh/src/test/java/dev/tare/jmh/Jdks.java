package dev.tare.jmh;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;

/** The JDKs that scripts/jdks.sh puts into the cache. */
final class Jdks {
    private Jdks() {
    }

    static String java(int major) {
        String cache = System.getenv("TARE_CACHE");
        Path folder = cache != null ? Paths.get(cache) : Paths.get(System.getProperty("user.home"), ".cache", "tare");
        Path java = folder.resolve("jdks/" + major + "/bin/java");
        assertTrue(Files.isExecutable(java), java + " is missing: run scripts/jdks.sh " + major);
        return java.toString();
    }
}
