import flask

app = flask.Flask(__name__)

def model(request: flask.Request) -> bytes:
    return request.get_data().upper()

@app.route('/invocations', methods=["POST"])
def invocations(request=flask.request):
    # Streams inference response using HTTP chunked encoding
    def generate():
        # model() is a hypothetical function that gets the inference output:
        yield model(request)
        yield "\n"

    return flask.Response(
        flask.stream_with_context(generate()), mimetype='text/plain')
