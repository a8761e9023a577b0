"""Stands in for mux_simulator.py: it takes its port, and writes its log."""
import http.server
import logging
import sys


class Old(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"old")


logging.basicConfig(filename=f"/tmp/mux_simulator_{sys.argv[1]}.log", level=logging.DEBUG)
logging.info("the old service runs")
http.server.ThreadingHTTPServer(("0.0.0.0", int(sys.argv[1])), Old).serve_forever()
