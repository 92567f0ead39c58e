package dev.tare.sysinfo;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class DatabaseTest {
    @ParameterizedTest
    @CsvSource({
        "postgres://u:secret@db.example:5433/app, jdbc:postgresql://db.example:5433/app",
        "postgresql://u:secret@10.0.0.1/app, jdbc:postgresql://10.0.0.1:5432/app",
        "postgres://u:secret@[::1]:5432/app?sslmode=require, jdbc:postgresql://[::1]:5432/app?sslmode=require",
        "jdbc:postgresql://h/app?user=u&password=secret, jdbc:postgresql://h:5432/app",
        "postgres://u@h/app?password=secret, jdbc:postgresql://h:5432/app",
        "postgres://u:secret@h/my%2Fapp%3Fx, jdbc:postgresql://h:5432/my%2Fapp%3Fx",
    })
    void urlsOfAllForms(String url, String jdbc) throws UsageException {
        Database database = Database.postgres(url);
        assertEquals(jdbc, database.jdbcUrl);
        assertEquals("u", database.user);
        assertEquals("secret", database.password);
        assertFalse(database.toString().contains("secret"), database.toString());
    }

    @Test
    void percentEncodingIsUndone() throws UsageException {
        Database database = Database.postgres("postgres://a%40b:p%3A%2F+%25%C3%A9@h/d");
        assertEquals("a@b", database.user);
        assertEquals("p:/+%\u00e9", database.password);
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "secret", "mysql://u:secret@h/d", "postgres://u:secret@h", "postgres://u:secret@h/", "postgres://u:secret@/d",
        "postgres://:secret@h/d", "postgres://h/d", "postgres://u:secret@h:0/d", "postgres://u:secret@h:65536/d",
        "postgres://u:secret@h:x/d", "postgres://u:secret@h/d/e", "postgres://u:secret@h/d#f", "postgres://u:secret%zz@h/d",
        "postgres://u:secret%@h/d", "postgres://u:secret%ff@h/d", "postgres://u:secret%00@h/d",
        "postgres://u:secret@h/d?socketFactory=evil", "postgres://u:secret@h/d?sslmode=maybe",
        "postgres://u:secret@h/d?user=v", "postgres://u:secret@h/d?password=secret2", "postgres://u:secret@h/d?",
        "postgres://u:secret@h/d?sslmode=require&sslmode=disable", "postgres://u:secret@h1,h2/d",
        "jdbc:postgresql://h/d?password=secret", " postgres://u:secret@h/d", "postgres://u:secret@h/d\n"
    })
    void whatIsWrongIsSaidInOneLineWithoutThePassword(String url) {
        String message = assertThrows(UsageException.class, () -> Database.postgres(url)).getMessage();
        assertTrue(message.matches("DATABASE_URL .+: .+"), message);
        assertFalse(message.contains("secret"), message);
    }

    @Test
    void aFolderCannotSmuggleSettingsIntoH2() throws UsageException {
        assertThrows(UsageException.class, () -> Database.inFolder(Path.of("/tmp/x;INIT=RUNSCRIPT FROM 'y'")));
        assertTrue(Database.inFolder(Path.of("data")).jdbcUrl.startsWith("jdbc:h2:file:/"));
    }
}
