package dev.tare.workloads;

/**
 * Keeps some heap for each request, for ever: the leak that ends in java.lang.OutOfMemoryError.
 *
 * <p>A request makes its pieces first and then adds them to what is kept: one that fails half-way leaves garbage
 * behind, and with it room for its error to be logged. With less than a MiB a request that room may be too small for
 * G1, and the service falls silent instead.
 */
final class HeapLeak implements RequestCost {
    /** Smaller than any collector's regions, so that the heap is really full when it is said to be. */
    private static final int PIECE_KB = 64;

    /** One piece and those before it. */
    private static final class Piece {
        private final byte[] content = new byte[PIECE_KB * 1024];
        private Piece before;
    }

    private final int pieces;
    /** The newest piece; guarded by this. */
    private Piece newest;

    /** {@code kb} KiB a request, rounded up to whole pieces of 64. */
    HeapLeak(int kb) {
        pieces = (kb + PIECE_KB - 1) / PIECE_KB;
    }

    @Override
    public void request() {
        Piece first = new Piece();
        Piece last = first;
        for (int i = 1; i < pieces; i++) {
            Piece piece = new Piece();
            piece.before = last;
            last = piece;
        }
        keep(first, last);
    }

    private synchronized void keep(Piece first, Piece last) {
        first.before = newest;
        newest = last;
    }

    /** How many bytes are kept, the pieces' own headers apart. */
    synchronized long keptBytes() {
        long bytes = 0;
        for (Piece piece = newest; piece != null; piece = piece.before) {
            bytes += piece.content.length;
        }
        return bytes;
    }
}
