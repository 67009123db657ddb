"""A FastAPI app whose streams end in each of its ways."""

from __future__ import annotations

from fastapi import FastAPI, WebSocket

app = FastAPI()


@app.websocket("/ends/{how}")
async def ends(websocket: WebSocket, how: str) -> None:
    await websocket.accept()
    await websocket.receive_text()
    await websocket.send_text("last words")
    if how == "closing":
        await websocket.close(4000, "enough")
    elif how == "raising":
        raise ZeroDivisionError
    elif how == "reading":
        await websocket.receive_text()  # raises WebSocketDisconnect when the client ends
