import flask

app = flask.Flask(__name__)

def model(request: flask.Request) -> bytes:
    return request.get_data().upper()

@app.route('/invocations', methods=["POST"])
def invoke(request=flask.request):
    # model() is a hypothetical function that gets the inference output:
    resp_body = model(request)
    return flask.Response(resp_body, mimetype='text/plain')
