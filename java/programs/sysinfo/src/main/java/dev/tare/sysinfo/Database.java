package dev.tare.sysinfo;

import java.io.ByteArrayOutputStream;
import java.io.UnsupportedEncodingException;
import java.net.URLEncoder;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Where the history is kept. No text made from it tells the password. */
final class Database {
    private static final String VARIABLE = "DATABASE_URL";
    private static final String FORM = "give postgres://USER:PASSWORD@HOST:PORT/DATABASE";
    private static final Pattern URL = Pattern.compile(
            "(?:jdbc:postgresql|postgres|postgresql)://(?:(?<user>[^:@/?\\s]+)(?::(?<password>[^@/?\\s]*))?@)?"
            + "(?<host>[A-Za-z0-9._-]+|\\[[0-9A-Fa-f:.]+\\])(?::(?<port>[0-9]{1,5}))?"
            + "/(?<database>[^/?#\\s]+)(?:\\?(?<query>[^#\\s]*))?");
    private static final List<String> SSL_MODES =
            Arrays.asList("disable", "allow", "prefer", "require", "verify-ca", "verify-full");
    /** The JVM's own work on exit would close the database under the requests that are still served. */
    private static final String H2_SETTINGS = ";DB_CLOSE_ON_EXIT=FALSE;CACHE_SIZE=1024";

    final String jdbcUrl;
    final String user;
    final String password;
    private final String description;

    private Database(String jdbcUrl, String user, String password, String description) {
        this.jdbcUrl = jdbcUrl;
        this.user = user;
        this.password = password;
        this.description = description;
    }

    /** An H2 database that lives as long as the process. */
    static Database inMemory() {
        return new Database("jdbc:h2:mem:sysinfo;DB_CLOSE_DELAY=-1" + H2_SETTINGS, "sa", "", "H2 in memory");
    }

    /** An H2 database in a folder, which is made when it is not there. */
    static Database inFolder(Path folder) throws UsageException {
        String path = folder.toAbsolutePath().normalize().toString();
        if (path.indexOf(';') >= 0) {
            throw new UsageException("--data " + path + " has a ';', which H2 takes for a setting: give another folder");
        }
        return new Database("jdbc:h2:file:" + path + "/sysinfo" + H2_SETTINGS, "sa", "", "H2 in " + path);
    }

    /**
     * The PostgreSQL database of a URL in the form of libpq (postgres://, postgresql://) or of JDBC. Of the
     * parameters only sslmode, user and password are taken: others of the driver can load classes.
     *
     * @throws UsageException saying what is wrong, without repeating the URL, which has a password
     */
    static Database postgres(String url) throws UsageException {
        Matcher parts = URL.matcher(url);
        if (!parts.matches()) {
            throw wrong("is not the URL of a PostgreSQL database: " + FORM);
        }
        Map<String, String> parameters = parameters(parts.group("query"));
        String user = either("user", parts.group("user"), parameters.get("user"));
        if (user == null || user.isEmpty()) {
            throw wrong("names no user: " + FORM);
        }
        String password = either("password", parts.group("password"), parameters.get("password"));
        String name = decode(parts.group("database"));
        int port = parts.group("port") == null ? 5432 : Integer.parseInt(parts.group("port"));
        if (port < 1 || port > 65535) {
            throw wrong("has port " + port + ": give one from 1 to 65535");
        }
        String address = parts.group("host") + ":" + port + "/";
        String ssl = parameters.get("sslmode");
        return new Database("jdbc:postgresql://" + address + encode(name) + (ssl == null ? "" : "?sslmode=" + ssl),
                user, password == null ? "" : password, "PostgreSQL " + encode(user) + "@" + address + encode(name));
    }

    private static Map<String, String> parameters(String query) throws UsageException {
        Map<String, String> parameters = new HashMap<>();
        if (query == null) {
            return parameters;
        }
        for (String pair : query.split("&", -1)) {
            int equals = pair.indexOf('=');
            String key = equals < 0 ? "" : pair.substring(0, equals);
            if (!Arrays.asList("sslmode", "user", "password").contains(key)) {
                throw wrong("has a parameter other than sslmode, user and password: remove it");
            }
            if (parameters.put(key, decode(pair.substring(equals + 1))) != null) {
                throw wrong("has the parameter " + key + " twice: remove one");
            }
        }
        if (parameters.containsKey("sslmode") && !SSL_MODES.contains(parameters.get("sslmode"))) {
            throw wrong("has an unknown sslmode: give one of " + SSL_MODES);
        }
        return parameters;
    }

    /** The value from before the host or from the parameters, not from both. */
    private static String either(String what, String encoded, String parameter) throws UsageException {
        if (encoded != null && parameter != null) {
            throw wrong("has the " + what + " twice: remove one");
        }
        return encoded == null ? parameter : decode(encoded);
    }

    private static UsageException wrong(String what) {
        return new UsageException(VARIABLE + " " + what);
    }

    /** Undoes percent-encoding, RFC 3986; a plus sign is a plus sign. */
    private static String decode(String text) throws UsageException {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        ByteArrayOutputStream out = new ByteArrayOutputStream(bytes.length);
        for (int i = 0; i < bytes.length; i++) {
            if (bytes[i] != '%') {
                out.write(bytes[i]);
                continue;
            }
            int high = i + 2 < bytes.length ? Character.digit(bytes[i + 1], 16) : -1;
            int low = i + 2 < bytes.length ? Character.digit(bytes[i + 2], 16) : -1;
            if (high < 0 || low < 0) {
                throw wrong("has a '%' that is not followed by two hexadecimal digits: write a percent sign as %25");
            }
            out.write(high << 4 | low);
            i += 2;
        }
        try {
            String plain = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(out.toByteArray())).toString();
            if (plain.indexOf('\0') < 0) {
                return plain;
            }
        } catch (CharacterCodingException e) {
            // Said below.
        }
        throw wrong("has bytes that are not UTF-8 text: encode them again");
    }

    private static String encode(String text) {
        try {
            return URLEncoder.encode(text, "UTF-8");
        } catch (UnsupportedEncodingException e) {
            throw new AssertionError(e);
        }
    }

    /** For messages: the kind, user and place. */
    @Override
    public String toString() {
        return description;
    }
}
