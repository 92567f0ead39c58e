package dev.tare.workloads;

/** Threads that spin and never wait, as some event loops do: they use processors when there is nothing to do. */
final class Spin implements RequestCost {
    private final int threads;
    private volatile long turns;

    Spin(int threads) {
        this.threads = threads;
    }

    @Override
    public void prepare() {
        for (int i = 0; i < threads; i++) {
            Thread thread = new Thread(() -> {
                while (true) {
                    turns = turns + 1;
                }
            }, "spinner-" + i);
            thread.setDaemon(true);
            thread.start();
        }
    }

    @Override
    public void request() {}
}
