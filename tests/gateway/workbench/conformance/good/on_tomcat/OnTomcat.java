// A container in Java, on Tomcat with its WebSocket buffers raised.

import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import jakarta.websocket.OnMessage;
import jakarta.websocket.Session;
import jakarta.websocket.server.ServerEndpoint;
import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.Set;
import org.apache.catalina.Context;
import org.apache.catalina.startup.Tomcat;
import org.apache.tomcat.websocket.server.WsSci;

public class OnTomcat {
    /** Bytes of a binary message, characters of a text: Tomcat's own limit is 8,192 of either. */
    static final int LARGEST = 16 << 20;

    @ServerEndpoint("/invocations-bidirectional-stream")
    public static class Stream {
        // A limit is a buffer that each stream has from its beginning: 16 MiB, and 32 for text.
        @OnMessage(maxMessageSize = LARGEST)
        public void text(Session session, String message) throws IOException {
            session.getBasicRemote().sendText(message);
        }

        @OnMessage(maxMessageSize = LARGEST)
        public void binary(Session session, ByteBuffer message) throws IOException {
            session.getBasicRemote().sendBinary(message);
        }
    }

    static class Ping extends HttpServlet {
        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) {}

        @Override
        protected void doPost(HttpServletRequest request, HttpServletResponse response) {}
    }

    static class Invocations extends HttpServlet {
        @Override
        protected void doPost(HttpServletRequest request, HttpServletResponse response)
                throws IOException {
            response.flushBuffer(); // in chunks: its length is not said
            request.getInputStream().transferTo(response.getOutputStream());
        }
    }

    /** Where nothing is. A WebSocket's path, too, is looked for only if some servlet has it. */
    static class Elsewhere extends HttpServlet {
        @Override
        protected void service(HttpServletRequest request, HttpServletResponse response) {
            response.setStatus(HttpServletResponse.SC_NOT_FOUND);
        }
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length != 1 || !arguments[0].equals("serve")) {
            System.err.println("usage: java OnTomcat serve");
            System.exit(2);
        }
        File folder = Files.createTempDirectory("on-tomcat").toFile();
        folder.deleteOnExit();
        Tomcat tomcat = new Tomcat();
        tomcat.setBaseDir(folder.getPath());
        String port = System.getenv().getOrDefault("SAGEMAKER_BIND_TO_PORT", "8080");
        tomcat.setPort(Integer.parseInt(port));
        tomcat.getConnector();
        Context context = tomcat.addContext("", null);
        add(context, "/ping", new Ping());
        add(context, "/invocations", new Invocations());
        add(context, "/", new Elsewhere());
        context.addServletContainerInitializer(new WsSci(), Set.of(Stream.class));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(tomcat)));
        tomcat.start();
        tomcat.getServer().await();
    }

    private static void add(Context context, String path, HttpServlet servlet) {
        Tomcat.addServlet(context, path, servlet).addMapping(path);
    }

    /** On SIGTERM: open streams get Close 1001. */
    private static void stop(Tomcat tomcat) {
        try {
            tomcat.stop();
        } catch (Exception error) {
            error.printStackTrace();
        }
    }
}
