package dev.tare.sysinfo;

import java.io.IOException;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryMXBean;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryUsage;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;

/**
 * What the JVM and Linux say about this process, as the members of a JSON object. Each call asks anew.
 *
 * <p>Resident memory comes from {@code /proc/self/stat}; with many threads it lags behind what smaps counts.
 */
final class SystemInfo {
    private static final String[][] MEMINFO = {
        {"mem-total", "MemTotal"}, {"mem-free", "MemFree"}, {"mem-available", "MemAvailable"},
        {"buffers", "Buffers"}, {"cached", "Cached"}, {"swap-total", "SwapTotal"}, {"swap-free", "SwapFree"},
    };

    private final ProcFs files;
    private final AuxVector aux;
    private final MemoryMXBean memory = ManagementFactory.getMemoryMXBean();

    /** @throws IOException when the kernel's units are not to be had: nothing could be told right without them */
    SystemInfo(ProcFs files) throws IOException {
        this.files = files;
        this.aux = AuxVector.read(files);
    }

    /** The body of {@code GET /sys-summary}: KiB (linux-mem-available in the kernel's kB, the same), seconds, percent. */
    Map<String, Object> summary() throws IOException {
        ProcStat stat = ProcStat.read(files);
        MemoryUsage heap = memory.getHeapMemoryUsage();
        Map<String, Object> jvmHeap = new LinkedHashMap<>();
        jvmHeap.put("size-kib", heap.getCommitted() / 1024);
        jvmHeap.put("used-kib", heap.getUsed() / 1024);
        jvmHeap.put("utilization", percent(heap.getUsed(), heap.getCommitted()));
        Map<String, Object> summary = new LinkedHashMap<>();
        summary.put("process-id", stat.pid);
        summary.put("jvm-nonheap-kib", memory.getNonHeapMemoryUsage().getCommitted() / 1024);
        summary.put("jvm-heap", jvmHeap);
        summary.put("cpu-seconds", seconds(stat.userTicks + stat.systemTicks));
        summary.put("linux-mem-available", MemInfo.read(files).kib("MemAvailable"));
        summary.put("process-rss-kib", residentKib(stat));
        return summary;
    }

    /** The body of {@code GET /sys-stat}: heap in bytes, GC time in ms, meminfo and rss in KiB, times in seconds. */
    Map<String, Object> stat() throws IOException {
        Map<String, Object> stat = new LinkedHashMap<>();
        stat.put("heap", heap());
        stat.put("meminfo", meminfo());
        stat.put("process", process());
        stat.put("runtime", runtime());
        stat.put("cgroup", cgroup());
        return stat;
    }

    private Map<String, Object> heap() {
        Map<String, Object> gc = new LinkedHashMap<>();
        for (GarbageCollectorMXBean bean : ManagementFactory.getGarbageCollectorMXBeans()) {
            Map<String, Object> one = new LinkedHashMap<>();
            one.put("count", bean.getCollectionCount());
            one.put("time", bean.getCollectionTime());
            gc.put(kebab(bean.getName()), one);
        }
        Map<String, Object> pools = new LinkedHashMap<>();
        for (MemoryPoolMXBean bean : ManagementFactory.getMemoryPoolMXBeans()) {
            MemoryUsage usage = bean.getUsage();
            if (usage != null) {
                pools.put(kebab(bean.getName()), usage(usage));
            }
        }
        Map<String, Object> heap = new LinkedHashMap<>();
        heap.put("gc", gc);
        heap.put("heap-usage", usage(memory.getHeapMemoryUsage()));
        heap.put("nonheap-usage", usage(memory.getNonHeapMemoryUsage()));
        heap.put("pool", pools);
        return heap;
    }

    /** A bean's name as a JSON name: {@code CodeHeap 'non-nmethods'} is {@code codeheap-non-nmethods}. */
    static String kebab(String name) {
        return name.toLowerCase(Locale.ROOT).replaceAll("[^a-z0-9]+", "-").replaceAll("^-|-$", "");
    }

    /** Bytes; the JVM's -1 for "not defined" is null here. */
    private static Map<String, Object> usage(MemoryUsage usage) {
        Map<String, Object> bytes = new LinkedHashMap<>();
        bytes.put("init", usage.getInit() < 0 ? null : usage.getInit());
        bytes.put("used", usage.getUsed());
        bytes.put("committed", usage.getCommitted());
        bytes.put("max", usage.getMax() < 0 ? null : usage.getMax());
        return bytes;
    }

    private Map<String, Object> meminfo() throws IOException {
        MemInfo memInfo = MemInfo.read(files);
        Map<String, Object> kib = new LinkedHashMap<>();
        for (String[] names : MEMINFO) {
            kib.put(names[0], memInfo.kib(names[1]));
        }
        return kib;
    }

    private Map<String, Object> process() throws IOException {
        ProcStat stat = ProcStat.read(files);
        Map<String, Object> process = new LinkedHashMap<>();
        process.put("pid", stat.pid);
        process.put("name", stat.name);
        process.put("state", stat.state);
        process.put("threads", stat.threads);
        process.put("rss", residentKib(stat));
        process.put("virtual", stat.virtualBytes / 1024);
        process.put("user", seconds(stat.userTicks));
        process.put("sys", seconds(stat.systemTicks));
        process.put("time", seconds(stat.userTicks + stat.systemTicks));
        process.put("page-size", aux.pageBytes);
        process.put("clock-ticks-per-second", aux.ticksPerSecond);
        return process;
    }

    private static Map<String, Object> runtime() {
        Runtime java = Runtime.getRuntime();
        Map<String, Object> runtime = new LinkedHashMap<>();
        runtime.put("cpu-count", java.availableProcessors());
        runtime.put("free-memory", java.freeMemory());
        runtime.put("max-memory", java.maxMemory());
        runtime.put("total-memory", java.totalMemory());
        runtime.put("version", System.getProperty("java.runtime.version"));
        runtime.put("vm", System.getProperty("java.vm.name"));
        runtime.put("uptime", ManagementFactory.getRuntimeMXBean().getUptime() / 1000.0);
        return runtime;
    }

    private Map<String, Object> cgroup() throws IOException {
        Cgroup group = Cgroup.read(files);
        Map<String, Object> cgroup = new LinkedHashMap<>();
        cgroup.put("version", group.version == 0 ? null : group.version);
        cgroup.put("path", group.path);
        cgroup.put("limit-bytes", group.limitBytes);
        cgroup.put("usage-bytes", group.usageBytes);
        return cgroup;
    }

    private long residentKib(ProcStat stat) {
        return stat.residentPages * aux.pageBytes / 1024;
    }

    private double seconds(long ticks) {
        return (double) ticks / aux.ticksPerSecond;
    }

    /** Percent with one decimal; 0 of 0 is 0. */
    private static double percent(long part, long whole) {
        return whole == 0 ? 0 : Math.round(1000.0 * part / whole) / 10.0;
    }
}
