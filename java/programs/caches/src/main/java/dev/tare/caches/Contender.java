package dev.tare.caches;

import com.github.benmanes.caffeine.cache.Caffeine;
import com.google.common.cache.CacheBuilder;
import com.google.common.cache.CacheLoader;
import com.google.common.cache.LoadingCache;
import java.util.function.IntFunction;
import org.cache2k.Cache2kBuilder;
import org.ehcache.Cache;
import org.ehcache.CacheManager;
import org.ehcache.config.builders.CacheConfigurationBuilder;
import org.ehcache.config.builders.CacheManagerBuilder;
import org.ehcache.config.builders.ResourcePoolsBuilder;
import org.ehcache.spi.loaderwriter.CacheLoaderWriter;

/** A cache that loads what it lacks, and holds so many entries at most. */
abstract class Contender implements AutoCloseable {
    /** The value of a key, loaded if need be. */
    abstract Integer get(Integer key);

    /** How many entries there are, after pending evictions. */
    abstract long size();

    @Override
    public void close() {
    }

    /**
     * Makes a cache.
     *
     * @param name caffeine, guava, cache2k or, from JDK 17 on, ehcache; each as its documentation shows it first
     */
    static Contender create(String name, int capacity, IntFunction<Integer> loader) {
        switch (name) {
            case "caffeine": return new OfCaffeine(capacity, loader);
            case "guava": return new OfGuava(capacity, loader);
            case "cache2k": return new OfCache2k(capacity, loader);
            case "ehcache": return new OfEhcache(capacity, loader);
            default: throw new IllegalArgumentException("no cache " + name + ": there are caffeine, guava, cache2k and ehcache");
        }
    }

    private static final class OfCaffeine extends Contender {
        private final com.github.benmanes.caffeine.cache.LoadingCache<Integer, Integer> cache;

        OfCaffeine(int capacity, IntFunction<Integer> loader) {
            cache = Caffeine.newBuilder().maximumSize(capacity).build(key -> loader.apply(key));
        }

        @Override
        Integer get(Integer key) {
            return cache.get(key);
        }

        @Override
        long size() {
            cache.cleanUp();
            return cache.estimatedSize();
        }
    }

    private static final class OfGuava extends Contender {
        private final LoadingCache<Integer, Integer> cache;

        OfGuava(int capacity, IntFunction<Integer> loader) {
            cache = CacheBuilder.newBuilder().maximumSize(capacity).build(new CacheLoader<Integer, Integer>() {
                @Override
                public Integer load(Integer key) {
                    return loader.apply(key);
                }
            });
        }

        @Override
        Integer get(Integer key) {
            return cache.getUnchecked(key);
        }

        @Override
        long size() {
            cache.cleanUp();
            return cache.size();
        }
    }

    private static final class OfCache2k extends Contender {
        private final org.cache2k.Cache<Integer, Integer> cache;

        OfCache2k(int capacity, IntFunction<Integer> loader) {
            cache = Cache2kBuilder.of(Integer.class, Integer.class).entryCapacity(capacity).eternal(true)
                    .loader(key -> loader.apply(key)).build();
        }

        @Override
        Integer get(Integer key) {
            return cache.get(key);
        }

        @Override
        long size() {
            return cache.asMap().size();
        }

        @Override
        public void close() {
            cache.close();
        }
    }

    private static final class OfEhcache extends Contender {
        private final CacheManager manager;
        private final Cache<Integer, Integer> cache;

        OfEhcache(int capacity, IntFunction<Integer> loader) {
            manager = CacheManagerBuilder.newCacheManagerBuilder().build(true);
            cache = manager.createCache("entries", CacheConfigurationBuilder.newCacheConfigurationBuilder(Integer.class,
                    Integer.class, ResourcePoolsBuilder.heap(capacity)).withLoaderWriter(new CacheLoaderWriter<Integer, Integer>() {
                        @Override
                        public Integer load(Integer key) {
                            return loader.apply(key);
                        }

                        @Override
                        public void write(Integer key, Integer value) {
                            throw new UnsupportedOperationException("this cache only reads");
                        }

                        @Override
                        public void delete(Integer key) {
                            throw new UnsupportedOperationException("this cache only reads");
                        }
                    }).build());
        }

        @Override
        Integer get(Integer key) {
            return cache.get(key);
        }

        @Override
        long size() {
            long entries = 0;
            for (Cache.Entry<Integer, Integer> unused : cache) {
                entries++;
            }
            return entries;
        }

        @Override
        public void close() {
            manager.close();
        }
    }
}
