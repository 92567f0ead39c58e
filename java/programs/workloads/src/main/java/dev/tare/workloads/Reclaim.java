package dev.tare.workloads;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileChannel.MapMode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Random;
import java.util.concurrent.ThreadLocalRandom;

/**
 * Reads pages all over a mapped file: where not all of it has room, the kernel drops pages and reads them again.
 *
 * <p>The file is written anew, in the folder for temporary files, and has no name once it is mapped.
 */
final class Reclaim implements RequestCost {
    private static final int PAGES_PER_REQUEST = 64;
    private static final int PAGE_BYTES = 4096;

    private final int megabytes;
    private MappedByteBuffer pages;
    /** Where what was read goes, so that it is read. */
    private volatile byte read;

    Reclaim(int megabytes) {
        this.megabytes = megabytes;
    }

    @Override
    public void prepare() throws IOException {
        Path file = Files.createTempFile("reclaim", ".pages");
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            byte[] content = new byte[1 << 20];
            Random random = new Random(1);
            for (int i = 0; i < megabytes; i++) {
                random.nextBytes(content);
                ByteBuffer buffer = ByteBuffer.wrap(content);
                while (buffer.hasRemaining()) {
                    channel.write(buffer);
                }
            }
            channel.force(true);
            pages = channel.map(MapMode.READ_ONLY, 0, channel.size());
        } finally {
            Files.delete(file);
        }
    }

    @Override
    public void request() {
        byte sum = 0;
        for (int i = 0; i < PAGES_PER_REQUEST; i++) {
            sum += pages.get(ThreadLocalRandom.current().nextInt(pages.capacity() / PAGE_BYTES) * PAGE_BYTES);
        }
        read = sum;
    }
}
