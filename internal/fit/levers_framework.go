package fit

import "tare.dev/tare/internal/footprint"

const (
	fewThreads     = "a thread of the server has a stack, buffers, and what the application keeps for each thread and request; a few for each processor serve the same"
	fewThreadsCost = "requests wait for a thread: where they wait for a database or another service, fewer are served at a time"
)

// fewerThreads completes a lever that leaves a server a few threads.
func fewerThreads(l Lever) Lever {
	l.Mark, l.Why, l.Cost, l.Slows, l.Waits, l.Harms = Framework, fewThreads, fewThreadsCost, true, true, []Harm{HarmLatency}
	l.Since = feature(8)
	l.Rows, l.bound = []footprint.Owner{footprint.ThreadStacks, footprint.JavaHeap, footprint.Malloc}, boundWorkers
	return l
}

// frameworkLevers set properties of the application's own framework, in the
// environment, where the user's own options, arguments and variables go before them.
var frameworkLevers = []Lever{
	fewerThreads(Lever{
		ID: "tomcat", Name: "few threads of Tomcat",
		Env: []string{"SERVER_TOMCAT_THREADS_MAX={threads}", "SERVER_TOMCAT_THREADS_MINSPARE=1"},
		Needs: []string{
			"org/apache/catalina/connector/Connector.class",
			"org/springframework/boot/autoconfigure/web/ServerProperties$Tomcat$Threads.class|org/springframework/boot/tomcat/autoconfigure/TomcatServerProperties$Threads.class",
		},
		Also: []string{"server.tomcat.max-threads", "server.tomcat.min-spare-threads", "spring.threads.virtual.enabled"},
	}),
	fewerThreads(Lever{
		ID: "jetty", Name: "few threads of Jetty",
		Env: []string{"SERVER_JETTY_THREADS_MAX={threads+jetty}", "SERVER_JETTY_THREADS_MIN=1"},
		Needs: []string{
			"org/eclipse/jetty/util/thread/QueuedThreadPool.class",
			"org/springframework/boot/autoconfigure/web/ServerProperties$Jetty$Threads.class|org/springframework/boot/jetty/autoconfigure/JettyServerProperties$Threads.class",
		},
		Also: []string{"server.jetty.max-threads", "server.jetty.min-threads", "spring.threads.virtual.enabled"},
	}),
	fewerThreads(Lever{
		ID: "quarkus", Name: "few worker threads of Quarkus",
		Env:   []string{"QUARKUS_THREAD_POOL_MAX_THREADS={threads}"},
		Needs: []string{"io/quarkus/runtime/ThreadPoolConfig.class"},
		Also:  []string{"quarkus.thread-pool.core-threads", "kc.http-pool-max-threads", "http-pool-max-threads"},
	}),
}
