"""A trained model whose attention is computed by an Attend server: embeddings of sentences, where the time went by
layer, and a picture of what one token attends to.

    python client/examples/minilm [--address HOST:PORT] [--picture FILE.png] [--sentence ... --word ...]
"""

import argparse
import pathlib
import sys

try:
    import attention_picture
    import ml_dtypes
    import numpy as np
    from encoder import SentenceEncoder
    from service_attention import ServiceAttention

    import attend
except ModuleNotFoundError as error:
    sys.exit(f"minilm: {error}: the README beside this program says what to install")

QUESTION = "How do I restart the server?"
SENTENCES = [
    "Turn the machine off and on again.",
    "The service starts by itself after a reboot.",
    "Requests are refused while the server drains.",
    "Memory is given back when a call ends.",
    "The waiter brought us the wrong soup.",
    "Attention is a weighted mean of values.",
    "Our team won the match in the last minute.",
]
TYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16}


def read_arguments(arguments):
    parser = argparse.ArgumentParser(prog="minilm", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--address", help="of the server (default: ATTEND_ADDRESS, else 127.0.0.1:8001)")
    parser.add_argument("--picture", metavar="FILE.png", help="draw the attention of --word into this file")
    parser.add_argument("--sentence", default="The server refused the request because it was too busy.",
                        help="what is drawn (default: %(default)s)")
    parser.add_argument("--word", default="it",
                        help="a token of the sentence, the first of several that are the same (default: it)")
    parser.add_argument("--layer", type=int, default=5, help="counted from 1 (default: 5)")
    parser.add_argument("--head", default="5", help="counted from 1, or 'all' of the layer (default: 5)")
    return parser.parse_args(arguments)


def compare(encoder, client):
    """Prints how near each sentence is to the question, attention computed here and by the service, and the times."""
    texts = [QUESTION, *SENTENCES]
    embeddings, measured = {"here": encoder.encode(texts)}, {}
    for name, dtype in TYPES.items():
        encoder.encode(texts, ServiceAttention(client, dtype))  # once before it counts
        attention = ServiceAttention(client, dtype)
        embeddings[name] = encoder.encode(texts, attention)
        measured[name] = encoder.layer_seconds, attention.calls
    similarity = {name: vectors[1:] @ vectors[0] for name, vectors in embeddings.items()}
    ranks = {name: np.argsort(np.argsort(-values)) + 1 for name, values in similarity.items()}
    print(f'How near is each sentence to "{QUESTION}"? Rank and cosine, attention computed here and by the service\n')
    print(f"{'here':>12}{'f32':>13}{'bf16':>13}")
    for i in np.argsort(-similarity["here"]):
        print("".join(f"{ranks[name][i]:5}  {similarity[name][i]:6.3f}" for name in similarity), "", SENTENCES[i])
    for name in TYPES:
        same = "the same ranking" if (ranks[name] == ranks["here"]).all() else "ANOTHER RANKING"
        difference = abs(embeddings[name] - embeddings["here"]).max()
        print(f"{name}: {same}, embeddings differ by at most {difference:.1e}")
    longest = max(len(encoder.tokens(text)) for text in texts)
    print_times(*measured["f32"], f"{len(texts)} sentences of {longest} tokens at most")


def print_times(layer_seconds, calls, what):
    parts = ("receive", "queue", "pack", "compute", "encode")
    print(f"\nWhere the time of each layer went, ms: {what}, f32; receive to encode by the server's clock")
    print("layer     all   dense  attention  =" + "".join(f"{part:>9}" for part in parts) + "  elsewhere")
    rows = []
    for whole, call in zip(layer_seconds, calls):
        server = [getattr(call.timings, part) for part in parts]
        rows.append([whole, whole - call.seconds, call.seconds, *server, call.seconds - sum(server)])
    for name, row in (*enumerate(rows, 1), ("sum", np.sum(rows, axis=0))):
        milliseconds = [1e3 * seconds for seconds in row]
        print("{:>5}{:8.2f}{:8.2f}{:11.2f}   ".format(name, *milliseconds[:3]) +
              "".join(f"{part:9.2f}" for part in milliseconds[3:-1]) + f"{milliseconds[-1]:11.2f}")


def check_picture(encoder, arguments):
    """Ends the program with a line where there is no such picture."""
    tokens = encoder.tokens(arguments.sentence)
    problem = None
    if arguments.word not in tokens:
        problem = f"--word {arguments.word} is no token of the sentence, must be one of: {' '.join(tokens)}"
    elif len(tokens) > attention_picture.LARGEST:
        problem = f"the sentence has {len(tokens)} tokens, must have at most {attention_picture.LARGEST}"
    elif arguments.picture is not None and not arguments.picture.endswith(".png"):
        problem = f"--picture is {arguments.picture}, must end in .png"
    elif not pathlib.Path(arguments.picture or ".").parent.is_dir():
        problem = f"--picture is {arguments.picture}, whose folder does not exist"
    elif not 1 <= arguments.layer <= encoder.layers:
        problem = f"--layer is {arguments.layer}, must be in [1, {encoder.layers}]"
    elif arguments.head not in ("all", *map(str, range(1, encoder.heads + 1))):
        problem = f"--head is {arguments.head}, must be 'all' or in [1, {encoder.heads}]"
    if problem is not None:
        sys.exit(f"minilm: {problem}")


def draw(encoder, client, arguments):
    attention = ServiceAttention(client, weights=True)
    encoder.encode([arguments.sentence], attention)
    tokens, weights = encoder.tokens(arguments.sentence), attention.calls[arguments.layer - 1].weights[0]
    where = f"all-MiniLM-L6-v2, layer {arguments.layer} of {encoder.layers}"
    if arguments.head == "all":
        attention_picture.draw_all_heads(arguments.picture, tokens, weights, arguments.word, where)
    else:
        weights = weights[int(arguments.head) - 1]
        where = f"{where}, head {arguments.head} of {encoder.heads}"
        attention_picture.draw_head(arguments.picture, tokens, weights, arguments.word, where)
        print(f'"{arguments.word}" in {where}: most to '
              f"{attention_picture.strongest(weights, tokens, arguments.word)}")
    print(f"picture: {arguments.picture}")


def main(arguments=None):
    arguments = read_arguments(arguments)
    encoder = SentenceEncoder()
    check_picture(encoder, arguments)
    try:
        with attend.connect(arguments.address) as client:
            compare(encoder, client)
            if arguments.picture is not None:
                print()
                draw(encoder, client, arguments)
    except (attend.AttendError, OSError) as error:
        sys.exit(f"minilm: {error}")


if __name__ == "__main__":
    main()
