package synqlite;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.sqlite.SQLiteConfig;

/** The program of the guide prints what the guide says. */
class GuideTest extends Sites {
    private static String block(String page, String language) {
        String begin = "\n```" + language + "\n";
        int from = page.indexOf(begin) + begin.length();
        int to = page.indexOf("\n```", from);
        assertTrue(from >= begin.length() && to > from, "the guide has no block in " + language);
        return page.substring(from, to + 1);
    }

    @Test
    void itsProgramPrintsWhatItSays() throws Exception {
        String page = Files.readString(Path.of("../../../docs/guides/java.md"));
        Files.writeString(folder.resolve("Todo.java"), block(page, "java"));
        String jar = Path.of(SQLiteConfig.class.getProtectionDomain().getCodeSource().getLocation().toURI()).toString();
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        Done done = process(folder, java, "-cp", jar, "Todo.java");
        String command = "\n$ java -cp " + Path.of(jar).getFileName() + " Todo.java\n";
        String[] told = block(page, "console").split(Pattern.quote(command));
        assertEquals(2, told.length, "the guide does not say" + command);
        assertEquals(told[1], done.printed());
    }
}
