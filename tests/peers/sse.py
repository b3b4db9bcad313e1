"""Follows the stream of a command with an SSE client library, and prints each event as a line of JSON at once.

Usage: sse.py httpx-sse|sseclient-py URL TOKEN < request.json
"""

import json
import sys

import httpx


def events(library, response):
    if library == "httpx-sse":
        import httpx_sse

        return httpx_sse.EventSource(response).iter_sse()
    import sseclient

    return sseclient.SSEClient(response.iter_raw()).events()


def main():
    library, url, token = sys.argv[1:]
    headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream"}
    request = json.load(sys.stdin)
    with httpx.stream("POST", url, json=request, headers=headers, timeout=30) as response:
        response.raise_for_status()
        for event in events(library, response):
            print(json.dumps({"event": event.event, "data": json.loads(event.data)}), flush=True)


main()
