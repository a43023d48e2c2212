# SPDX-License-Identifier: Apache-2.0
"""Wrong inputs as somebody types them, and what the answer must name. test_wrong_inputs.py runs them.

A command line is run in a folder with the files that FILES and test_wrong_inputs.py make; `wrongs.py` holds
the models. A line of Python sees torch, nn, lamina, `m` (wrongs.py), `x` (an input of `m.small()`) and
`report` (of `m.small()`).
"""

from typing import NamedTuple


class Case(NamedTuple):
    """``typed`` ends with exit code or exception ``ends``, and the sentence matches the expressions ``what``
    (is wrong), ``where`` and ``then`` (what to do next), each anywhere in it."""

    typed: str
    ends: int | type[BaseException]
    what: str
    where: str = ""
    then: str = ""


MODELS = """
import torch
import sys
from torch import nn

def small(): return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
def scripted(): return torch.jit.script(small().eval())
def broken(): raise RuntimeError("no weights file")
def ends(): raise SystemExit(7)
def needs(width): return nn.Linear(width, width)
def text(): return "not a model"
def deep(n=sys.getrecursionlimit() * 6 // 10):
    net = nn.Linear(4, 4)
    for _ in range(n): net = nn.Sequential(net)
    return net
number = 7
state = {"weight": torch.zeros(2)}

class XY(nn.Module):
    def forward(self, x, y): return x + y

class Batch(nn.Module):
    def forward(self, batch): return batch["image"] * 2

class Exit(nn.Module):
    def forward(self, x): raise SystemExit(7)

class Item(nn.Module):
    def forward(self, x): return x * x.sum().item()

def twins():
    net = nn.Sequential()
    net.a = net.c = nn.Sequential(nn.ReLU())
    return net

class Noisy(nn.Module):
    def forward(self, x):
        print("debug", x.shape)
        return x

class NoParams(nn.Module):
    def forward(self, x): return x * 2

class Mute(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
    def forward(self, x): self.layer(x)

def norm(): return nn.Sequential(nn.Linear(16, 4), nn.BatchNorm1d(4))
"""

FILES = {
    "wrongs.py": MODELS.encode(),
    "syntax.py": b"def (:\n",
    "imports.py": b"import no_such_package_here\n",
    "raises.py": b"\n\nraise ValueError('while it was imported')\n",
    "notes.txt": b"hello\n",
    "weights.pt": b"PK\x03\x04",
    "net.safetensors": b'\x38\0\0\0\0\0\0\0{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}   \1\2',
    "bad.rules": b"bad rule\n",
    "formula.rules": b"# mine\naten::relu  macs = out *\n",
    "fact.rules": b"# mine\naten::relu  macs = nobody\n",
    "binary.rules": b"\xff\xfe\x00",
    "there.csv": b"",
    "text.lamina": b"hello\n",
    "empty.lamina": b"",
    "noise.lamina": bytes(range(256)) * 20,
    "header.lamina": b"SQLite format 3\0" + b"\xff" * 500,
}

NET = "wrongs.py:small -i 1x3x8x8"
SHOW = [
    Case("show", 2, "usage", "lamina show TARGET", "MODULE:NAME"),
    Case("shwo wrongs.py:small", 2, "no such subcommand", "shwo", "did you mean show"),
    Case("net -i 1x4", 2, "a model is given as", "net", "MODULE:NAME or FILE.py:NAME"),
    Case("''", 2, "no such subcommand", "", "lamina help"),
    Case("help nothere", 2, "no such subcommand", "nothere", "lamina help"),
    Case(
        "show net.safetensors --set batch=8", 2, "leaves no size open", "net.safetensors", "only ONNX files"
    ),
    Case("show net.safetensors --set batch=9223372036854775808", 2, "whole number", "batch=9", "as batch=8"),
    Case(
        "compare net.safetensors --batch 2", 2, "is for a model that is run", "--batch", "nothing of a file"
    ),
    Case("compare net.safetensors --backward", 2, "is for a model that is run", "--backward"),
    Case("doctor x", 2, "one operand too many", "x", "lamina doctor$"),
    Case("version x", 2, "one operand too many", "x", "lamina version$"),
    Case("-x", 2, "no such option", "-x", "`lamina help show`"),
    Case("--frobnicate", 2, "no such option", "--frobnicate", "`lamina help show`"),
    Case(f"{NET} --detph 2", 2, "no such option", "--detph", "did you mean --depth"),
    Case(f"{NET} -b 8", 2, "no such option", "-b", "`lamina help show`"),
    Case(f"{NET} --batch 8", 2, "no such option", "--batch", "`lamina compare` has it"),
    Case(f"{NET} --optimizer sgd", 2, "no such option", "--optimizer", "`lamina fit` has it"),
    Case(f"{NET} --tensorboard d", 2, "no such option", "--tensorboard", "`lamina export` has it"),
    Case(f"{NET} --depth two", 2, "whole number from 0", "--depth two"),
    Case(f"{NET} --depth -3", 2, "whole number from 0", "--depth -3"),
    Case(f"{NET} --depth 99999999999", 2, "to 2147483647", "--depth 99999999999"),
    Case(f"{NET} --depth", 2, "needs a value", "--depth", "N"),
    Case(f"{NET} --depth=", 2, "whole number", "--depth"),
    Case(f"{NET} --width 10", 2, "needs 20 columns", "--width 10", "-w is as many as it takes"),
    Case(f"{NET} --width wide", 2, "whole number", "--width wide"),
    Case(f"{NET} --color red", 2, "one of", "--color red", r"auto\|always\|never"),
    Case(f"{NET} --mode evil", 2, "one of", "--mode evil", r"eval\|train"),
    Case(f"{NET} --mode", 2, "needs a value", "--mode", r"eval\|train"),
    Case(f"{NET} --rf=1", 2, "takes no value", "--rf=1"),
    Case(f"{NET} --format xml", 2, "no format 'xml'", "format", "text, csv, md, json"),
    Case(f"{NET} --layout keras", 2, "no layout 'keras'", "layout", "torchscan-0.1.2"),
    Case(
        f"{NET} --layout torchscan-0.1.2 --format csv", 2, "no csv form", "torchscan-0.1.2", "lamina, thoplw"
    ),
    Case(f"{NET} -c exat", 2, "unknown convention", "exat", "did you mean exact"),
    Case(f"{NET} -c nobody", 2, "unknown convention", "nobody", "`lamina conventions`"),
    Case(
        f"{NET} -c layers --backward", 2, "counts the forward pass alone", "'layers'", "leave --backward out"
    ),
    Case(f"{NET} --released", 2, "one form only", "'exact'", "torchscan, thoplw"),
    Case(f"{NET} --released -c layers", 2, "one form only", "'layers'", "leave --released out"),
    Case(f"{NET} --time --dry", 2, "dry run computes nothing", "", "leave one of them out"),
    Case(f"{NET} --memory --dry", 2, "dry run allocates nothing", "", "leave one of them out"),
    Case(f"{NET} --health --dry", 2, "computes no values to check", "--health", "leave one of them out"),
    Case(f"{NET} --repeats 3", 2, "timed", "--repeats 3", "add --time"),
    Case(f"{NET} --time --repeats 0", 2, "whole number from 1", "--repeats 0"),
    Case(f"{NET} --bytes -c thoplw", 2, "does not count bytes", "thoplw", "exact"),
    Case(f"{NET} --run 1", 2, "for recordings", "--run"),
    Case(f"{NET} wrongs.py:deep", 2, "one operand too many", "wrongs.py:deep", "only recordings"),
    Case("wrongs.py:small 1x3x8x8", 2, "one operand too many", "1x3x8x8", "-i 1x3x8x8"),
    Case(f"{NET} -o there.csv", 2, "exists already", "there.csv", "-f"),
    Case(f"{NET} -o no/such/folder.csv", 2, "there is no folder", "no/such/folder.csv", "make it"),
    Case(f"{NET} -o /dev/full", 2, "exists already", "/dev/full", "-f"),
    Case(f"{NET} -f -o /dev/full", 3, "could not be written", "/dev/full", "No space"),
    Case(f"{NET} -f -o .", 2, "is a folder", r"\.", "name a file in it"),
    Case("why wrongs.py:twins c -i 1x4", 2, "a is also registered as c", "c:", "name it a$"),
    Case("why wrongs.py:twins c.0 -i 1x4", 2, "a is also registered as c", r"c\.0:", r"name it a\.0$"),
    Case(f"{NET} -o ''", 2, "no name of a file", "''", "name a file"),
]
TARGETS = [
    Case("wrongs.py", 2, "is a file", "wrongs.py", "write wrongs.py:NAME; it has small"),
    Case("wrongs.py:", 2, "does not name a model", "wrongs.py:", "write wrongs.py:NAME; it has small"),
    Case(":small", 2, "does not name a model", ":small", "package.module:name"),
    Case("weights.pt:net", 2, "is a file", "weights.pt", "path/to/file.py:name"),
    Case("./weights.pt", 3, "no directory at its end", "weights.pt", "it is cut off"),
    Case("wrongs.py:nothing", 2, "has no 'nothing'", "wrongs.py"),
    Case("wrongs.py:smal -i 1x3x8x8", 2, "has no 'smal'", "wrongs.py", "did you mean small"),
    Case("wrongs.py:small.inner -i 1x3x8x8", 2, "has no 'small.inner'", "wrongs.py"),
    Case("wrong.py:small", 2, "no file", "wrong.py", "did you mean wrongs.py"),
    Case("./:small", 2, "folder", r"\./", "name a file in it"),
    Case("nothere:net", 2, "no module 'nothere'"),
    Case("torchvison.models:resnet18", 2, "no module 'torchvison'", "", "did you mean torchvision"),
    Case("torch.nn:Linaer -i 1x4", 2, "has no 'Linaer'", "torch.nn", "did you mean Linear"),
    Case("torch.n:Linear -i 1x4", 2, "no module 'n'", "in torch"),
    Case("wrongs.py:number", 2, "is an int", "wrongs.py:number", r"name a torch\.nn\.Module, or a class"),
    Case("wrongs.py:state", 2, "is a dict", "wrongs.py:state", r"name a torch\.nn\.Module"),
    Case("wrongs.py:nn", 2, "is a Python module", "wrongs.py:nn", "a class or function"),
    Case("wrongs.py:text", 2, "a str", "wrongs.py:text", "torch.nn.Module"),
    Case("wrongs.py:needs -i 1x4", 2, "missing 1 required", "wrongs.py:needs", "-k NAME=VALUE"),
    Case(
        "wrongs.py:small -k size=1 -i 1x3x8x8",
        2,
        "unexpected keyword argument 'size'",
        "wrongs.py:small",
        "-k",
    ),
    Case("wrongs.py:small -k size -i 1x3x8x8", 2, "'size'", "", "name=value"),
    Case("wrongs.py:deep -k n=x -i 1x4", 3, "TypeError", "line"),
    Case("wrongs.py:broken", 3, "RuntimeError: no weights file", "line"),
    Case("wrongs.py:ends", 3, r"called sys.exit\(7\)", "line 9 of wrongs.py"),
    Case("syntax.py:net", 3, "SyntaxError", "syntax.py"),
    Case("imports.py:net", 3, "no_such_package_here", "imports.py"),
    Case("raises.py:net", 3, "ValueError: while it was imported", "line 3"),
]
INPUTS = [
    Case("wrongs.py:small", 2, "missing a required argument: 'input'", "wrongs.py:small", "-i 1x3x224x224"),
    Case("wrongs.py:small -i", 2, "needs a value", "--input", "SHAPE"),
    Case("wrongs.py:small -i 1x3xx8", 2, "'1x3xx8'", "", "1x3x224x224"),
    Case("wrongs.py:small -i 1x-3x8x8", 2, "negative", "1x-3x8x8"),
    Case("wrongs.py:small -i 1,3,,8", 2, "a size is missing", "1,3,,8", "1x3x224x224"),
    Case("wrongs.py:small -i '(1, 3, 8, a)'", 2, r"\(1, 3, 8, a\)", "", "1x3x224x224"),
    Case("wrongs.py:small -i =2x3", 2, "unknown value '2x3'", "=2x3", "a name stands before ="),
    Case("wrongs.py:small -i 1x3x8x8:floot32", 2, "'floot32'", "", "did you mean float32"),
    Case("wrongs.py:small -i 1x3x8x8:int99", 2, "'int99'", "", "int"),
    Case("wrongs.py:small -i nn.Conv2d=1x3", 2, "no parameter 'nn'", r"forward\(input\)", "dict"),
    Case("wrongs.py:small -i 99999999999999999999x3", 2, "more elements than can be counted", "9999x3"),
    Case("wrongs.py:small -i 99999999x3x64x64", 2, "4.47 TiB", "99999999x3x64x64", "--dry"),
    Case("wrongs.py:small -i 1x4x8x8", 3, r"expected input\[1, 4, 8, 8\]", r"0 \(Conv2d\).*\(1, 4, 8, 8\)"),
    Case("wrongs.py:small -i 1x3x8x8:int64", 3, "type|dtype|should be the same", r"0 \(Conv2d\)"),
    Case("wrongs.py:small -i 1x3x2x2", 3, "Kernel size", r"0 \(Conv2d\)"),
    Case("wrongs.py:small -i 1x3x8x8 -i 1x3x8x8", 2, "too many positional arguments", r"forward\(input\)"),
    Case("wrongs.py:XY -i 1x4", 2, "missing a required argument: 'y'", r"forward\(x, y\)", "-i"),
    Case("wrongs.py:XY -i 1x4 -i z=1x4", 2, "no parameter 'z'", r"forward\(x, y\)"),
    Case(
        "wrongs.py:XY -i x=1x4 -i 1x4", 2, "multiple values for argument 'x'|positional", r"forward\(x, y\)"
    ),
    Case("wrongs.py:Batch -i image=1x4 -i ids=1x4", 2, "no parameter 'image'", "batch", "-i batch.image="),
    Case(
        "wrongs.py:norm -i 1x16 --mode train",
        3,
        "more than 1 value per channel",
        r"1 \(BatchNorm1d\)",
        "--mode eval",
    ),
    Case("wrongs.py:norm -i 1x16 --backward", 3, "more than 1 value per channel", "", "--mode eval"),
    Case(
        "wrongs.py:deep -i 1x4",
        3,
        "RecursionError",
        r"raised in (0\.){9,20}\[\.\.\.\]",
        "sys.setrecursionlimit",
    ),
    Case("wrongs.py:Exit -i 1x4", 3, r"called sys.exit\(7\)", "raised in the model itself"),
    Case("wrongs.py:Item -i 1x4 --dry", 3, "item", "Item", "leave --dry out"),
]
WHY = [
    Case("why wrongs.py:small", 2, "usage", "lamina why TARGET LAYER", "LAYER is its path"),
    Case("why wrongs.py:small 7 -i 1x3x8x8", 2, "no such layer", "7", "`lamina show` lists the layers"),
    Case("why wrongs.py:small 0 1 -i 1x3x8x8", 2, "one operand too many", "1", "lamina why TARGET LAYER"),
    Case("why wrongs.py:small 0 1x3x8x8", 2, "one operand too many", "1x3x8x8", "-i 1x3x8x8"),
    Case(
        "why wrongs.py:small 0 -i 1x3x8x8 -c lyers", 2, "unknown convention", "lyers", "did you mean layers"
    ),
    Case(
        "why wrongs.py:small 0 -i 1x3x8x8 -c layers --backward", 2, "forward pass alone", "'layers'", "leave"
    ),
    Case("why wrongs.py:small 0 -i 1x3x8x8 --released", 2, "one form only", "'exact'", "torchscan, thoplw"),
    Case("why wrongs.py:small 0 -i 1x3x8x8 --time", 2, "no such option", "--time", "`lamina show` has it"),
    Case("why wrongs.py:small '' -i 1x3x8x8 --format csv", 2, "no such option", "--format"),
]
COMPARE = [
    Case("compare", 2, "usage", "lamina compare TARGET"),
    Case("compare wrongs.py:small 1x3x8x8", 2, "one operand too many", "1x3x8x8", "-i 1x3x8x8"),
    Case(
        "compare wrongs.py:small -i 1x3x8x8 -c thop", 2, "unknown convention", "thop", "did you mean thoplw"
    ),
    Case("compare wrongs.py:small -i 1x3x8x8 -c ''", 2, "unknown convention", "''", "`lamina conventions`"),
    Case("compare wrongs.py:small -i 1x3x8x8 -c torch,,fvcore", 2, "unknown convention|empty", "''|,,", ""),
    Case(
        "compare wrongs.py:small -i 1x3x8x8 --format pdf",
        2,
        "no format 'pdf'",
        "comparison",
        "text, md, json, csv, html",
    ),
    Case("compare wrongs.py:small -i 1x3x8x8 --time", 2, "no such option", "--time", "`lamina show` has it"),
    Case("compare wrongs.py:small", 2, "missing a required argument", "wrongs.py:small", "-i"),
    Case("compare text.lamina", 2, "is a file|does not name", "text.lamina", ":name"),
]
DIFF = [
    Case(f"diff {NET} wrongs.py:small --old-i 1x3x8x8 --new-i 1x3x9x9", 2, "no side", "-i", "leave -i out"),
]
GRAPH = [
    Case("graph", 2, "usage", "lamina graph TARGET"),
    Case("graph wrongs.py:small", 2, "missing a required argument", "wrongs.py:small", "-i"),
    Case("graph wrongs.py:small -i 1x3x8x8 --ops=1", 2, "takes no value", "--ops=1"),
    Case("graph wrongs.py:small -i 1x3x8x8 --format png", 2, "png", "dot, svg, html"),
    Case("plot pie wrongs.py:small -i 1x3x8x8", 2, "pie", "icicle"),
    Case("graph wrongs.py:small 1x3x8x8", 2, "one operand too many", "1x3x8x8", "-i 1x3x8x8"),
    Case("graph wrongs.py:small -i 1x4x8x8", 3, "expected input", r"0 \(Conv2d\)"),
]
FIT = [
    Case("fit", 2, "usage", "lamina fit TARGET"),
    Case(
        "fit wrongs.py:small -i 1x3x8x8 --optimizer adma",
        2,
        "unknown optimizer",
        "'adma'",
        "did you mean adam",
    ),
    Case("fit wrongs.py:small -i 1x3x8x8 --optimizer lion", 2, "unknown optimizer 'lion'", "", "there are"),
    Case(
        "fit wrongs.py:small -i 1x3x8x8 --dtype fp16",
        2,
        "'fp16'",
        "",
        "did you mean float16.*bfloat16, float32",
    ),
    Case("fit wrongs.py:small -i 1x3x8x8 --dtype floot16", 2, "'floot16'", "", "did you mean .*float16"),
    Case(
        "fit wrongs.py:small -i 1x3x8x8 --dtype int64",
        2,
        "'int64' is not a floating-point type",
        "",
        "float16, ",
    ),
    Case("fit wrongs.py:small -i 1x3x8x8 --dtype ''", 2, "''", "", "float16, bfloat16"),
    Case("fit wrongs.py:small -i 1x3x8x8 --optimizer ''", 2, "--optimizer is empty", "", "adamw"),
    Case("fit wrongs.py:small -i 1x3x8x8 --batch 0", 2, "whole number from 1", "--batch 0"),
    Case("fit wrongs.py:small -i 1x3x8x8 --batch many", 2, "whole number from 1", "--batch many"),
    Case("fit wrongs.py:small -i 1x3x8x8 --format csv", 2, "csv", "", "text, json, html"),
    Case("fit wrongs.py:Item -i 1x4", 3, "item", "Item"),
    Case("fit text.lamina", 2, "is a file|does not name", "text.lamina", ":name"),
]
RUN = [
    Case("run", 2, "usage", r"lamina run \[options\] -m MODULE"),
    Case("run nothere.py", 2, "No such file", "nothere.py"),
    Case("run --every 0 wrongs.py", 2, "whole number from 1", "--every 0"),
    Case("run --every often wrongs.py", 2, "whole number from 1", "--every often"),
    Case("run --evry 3 wrongs.py", 2, "no such option", "--evry", "did you mean --every"),
    Case("run --file", 2, "needs a value", "--file", "FILE"),
    Case("run -m", 2, "needs a value", "--module", "NAME"),
    Case("run --file folder.lamina wrongs.py", 2, "it is a folder", "folder.lamina", "name a file in it"),
    Case("run ''", 2, "the program has no name", "", "-m MODULE"),
    Case("run -i 1x4 wrongs.py", 2, "no such option", "-i", "lamina help run"),
]
RECORDINGS = [
    Case("live", 2, "usage", "lamina live FILE"),
    Case("live nothere.lamina --once", 3, "no such file", "nothere.lamina"),
    Case("live wrongs.py:small --once", 3, "no such file", "wrongs.py:small"),
    Case("live wrongs.py --once", 3, "recording", "wrongs.py"),
    Case("live empty.lamina --once", 3, "empty", "empty.lamina"),
    Case("live good.lamina --once --format csv", 2, "no such option", "--format", "`lamina show` has it"),
    Case("live good.lamina --once -n x", 2, "whole number", "--rows x"),
    Case("show nothere.lamina", 3, "no such file", "nothere.lamina"),
    Case("show text.lamina", 3, "recording", "text.lamina"),
    Case("show empty.lamina", 3, "empty", "empty.lamina"),
    Case("show noise.lamina", 3, "recording", "noise.lamina"),
    Case("show header.lamina", 3, "recording|malformed|database", "header.lamina"),
    Case("show cut.lamina", 3, "recording|malformed|damaged", "cut.lamina"),
    Case("show other.lamina", 3, "database", "other.lamina"),
    Case("show newer.lamina", 3, "newer|version", "newer.lamina"),
    Case("show folder.lamina", 3, "file", "folder.lamina"),
    Case("show good.lamina --run 9", 2, "no run 9", "good.lamina"),
    Case("show good.lamina --run 0", 2, "whole number from 1", "--run 0"),
    Case("show good.lamina -n -1", 2, "whole number from 0", "--rows -1"),
    Case("show good.lamina -c exact", 2, "is a recording", "--convention"),
    Case("show good.lamina -i 1x3", 2, "is a recording", "--input", "measured in its run"),
    Case("show good.lamina --format xml", 2, "xml", "", "csv|json"),
    Case("show good.lamina wrongs.py:small", 3, "no such file|recording", "wrongs.py:small"),
    Case("export", 2, "usage", "lamina export FILE", "--tensorboard logs"),
    Case("export good.lamina", 2, "for which program", "", "--tensorboard DIR"),
    Case("export nothere.lamina --tensorboard d", 3, "no such file", "nothere.lamina"),
    Case("export text.lamina --tensorboard d", 3, "recording", "text.lamina"),
    Case("export good.lamina --tensorboard there.csv", 3, "", "there.csv", ""),
    Case("export good.lamina --tensorboard d --run 9", 2, "no run 9", "good.lamina"),
]
RULES = [
    Case("rules nobody", 2, "unknown convention", "nobody", "`lamina conventions`"),
    Case("rules exact layers", 2, "one operand too many", "layers", r"lamina rules \[CONVENTION\]"),
    Case("conventions x", 2, "one operand too many", "x", "lamina conventions$"),
    Case("table", 2, "usage", "lamina table TABLE"),
    Case("table nobody", 2, "no such published table", "nobody", "torchscan thoplw"),
    Case("table torchscan alexnett", 2, "no such model", "alexnett", "did you mean alexnet"),
    Case(f"{NET} --rules nothere.rules", 2, "No such file", "nothere.rules"),
    Case(f"{NET} --rules bad.rules", 2, "expected", "bad.rules:1", "macs = "),
    Case(f"{NET} --rules formula.rules", 2, "expected|ends", "formula.rules:2"),
    Case(f"{NET} --rules fact.rules", 2, "nobody", "fact.rules:2"),
    Case(f"{NET} --rules binary.rules", 2, "", "binary.rules", ""),
    Case(f"{NET} --rules folder.lamina", 2, "Is a directory", "folder.lamina"),
]
COMMANDS = [*SHOW, *TARGETS, *INPUTS, *WHY, *COMPARE, *DIFF, *GRAPH, *FIT, *RUN, *RECORDINGS, *RULES]

# Nothing is wrong with these, and what they tell would be misread without a word beside it.
REMARKS = [
    Case("wrongs.py:Mute -i 1x4 --backward", 0, "no backward pass ran", "", ""),
    Case("wrongs.py:NoParams -i 1x4 -c layers", 0, "has no rule: NoParams", "", "-c exact counts"),
    Case(
        "wrongs.py:scripted -i 1x3x8x8 -c layers",
        0,
        "scripted, traced or compiled",
        "Sequential",
        "`exact` counts",
    ),
]

MODEL = r"lamina\.inspect\(model, "
PYTHON = [
    Case("lamina.inspect('resnet18', x)", TypeError, "a str", "", "torch.nn.Module"),
    Case("lamina.inspect(nn.Linear, x)", TypeError, "the class Linear", "", "call it first"),
    Case("lamina.inspect(m.state, x)", TypeError, "a dict", "", "build the model and load"),
    Case(
        "lamina.inspect(torch.relu, x)",
        TypeError,
        "lamina looks at a torch.nn.Module",
        "",
        "wrap the function",
    ),
    Case("lamina.inspect(m.small())", TypeError, "missing 1 required positional argument: 'input'"),
    Case(
        "lamina.inspect(m.small(), input_size=(1, 3, 8, 8))",
        TypeError,
        "'input_size'",
        "",
        MODEL + "torch.rand",
    ),
    Case("lamina.inspect(m.small(), input_data=x)", TypeError, "'input_data'", "", MODEL + "torch.rand"),
    Case(
        "lamina.inspect(m.small(), (1, 3, 8, 8))",
        TypeError,
        r"\(1, 3, 8, 8\)",
        "",
        r"torch\.rand\(1, 3, 8, 8\)",
    ),
    Case(
        "lamina.inspect(m.small(), [1, 3, 8, 8])",
        TypeError,
        r"\[1, 3, 8, 8\]",
        "",
        r"torch\.rand\(1, 3, 8, 8\)",
    ),
    Case("lamina.inspect(m.small(), [x])", TypeError, "a list", "args", r"\(x, y\)"),
    Case("lamina.inspect(m.small(), {'input': x})", TypeError, "a dict", "args", r"\(d,\).*third argument"),
    Case(
        "lamina.inspect(m.small(), x.numpy())", TypeError, "a numpy array", "args", r"torch\.from_numpy\(x\)"
    ),
    Case("lamina.inspect(m.small(), x, [1])", TypeError, "a list", "kwargs", "as a dict"),
    Case(
        "lamina.inspect(m.small(), x, convetion='exact')",
        TypeError,
        "'convetion'",
        "",
        "did you mean convention",
    ),
    Case("lamina.inspect(m.small(), x, verbose=True)", TypeError, "'verbose'", "", "kwargs"),
    Case("lamina.inspect(m.small(), x, convention='exat')", ValueError, "exat", "", "exact"),
    Case("lamina.inspect(m.small(), x, convention=3)", TypeError, "an int", "convention", "'exact'"),
    Case("lamina.inspect(m.small(), x, mode='evil')", ValueError, "'evil'", "mode", "'eval', 'train'"),
    Case(
        "lamina.inspect(m.small(), x, convention='layers', backward=True)",
        ValueError,
        "alone",
        "'layers'",
        "leave",
    ),
    Case(
        "lamina.inspect(m.small(), x, ops=False, backward=True)",
        ValueError,
        "needs operators",
        "",
        "ops=False out",
    ),
    Case(
        "lamina.inspect(m.small(), x, time=True, dry=True)", ValueError, "computes nothing", "", "leave one"
    ),
    Case(
        "lamina.inspect(m.small(), x, memory=True, dry=True)",
        ValueError,
        "allocates nothing",
        "",
        "leave one",
    ),
    Case(
        "lamina.inspect(m.small(), x, health=True, dry=True)",
        ValueError,
        "no values",
        "",
        "leave dry or health",
    ),
    Case("lamina.inspect(m.small(), x, repeats=3)", ValueError, "timed", "repeats", "time=True"),
    Case("lamina.inspect(m.small(), x, time=True, repeats=True)", TypeError, "repeats is True", "", "whole"),
    Case("lamina.inspect(m.small(), x, time=True, warmup=None)", TypeError, "warmup is None", "", "whole"),
    Case("lamina.inspect(m.small(), x, dry='no')", TypeError, "dry is 'no'", "", "True or False"),
    Case("lamina.inspect(m.small(), x, backward='yes')", TypeError, "backward is 'yes'", "", "True or False"),
    Case("lamina.inspect(m.small(), x, ops='yes')", TypeError, "ops is 'yes'", "", "True or False"),
    Case("lamina.inspect(m.small(), x, stats='yes')", TypeError, "stats is 'yes'", "", "True or False"),
    Case("lamina.inspect(m.small(), x, health_allow=3)", TypeError, "3 names no layers", "", "a pattern"),
    Case("lamina.inspect(m.small(), x.shape)", TypeError, r"torch\.Size", "", r"torch\.rand\(1, 3, 8, 8\)"),
    Case("lamina.capture(m.small(), memory='no')", TypeError, "memory is 'no'", "", "True or False"),
    Case("lamina.fit(m.small(), x, step='no')", TypeError, "step is 'no'", "", "True or False"),
    Case("lamina.inspect(m.small(), x, time=True, repeats=0)", ValueError, "repeats=0", "", "1 or more"),
    Case("lamina.inspect(m.small(), x, rules='nothere')", OSError, "there is no file", "nothere"),
    Case(
        "lamina.inspect(m.NoParams(), x, convention='layers', strict=True)",
        ValueError,
        "no rule in layers",
        "NoParams",
        "lamina.register",
    ),
    Case(
        "lamina.inspect(m.norm(), torch.rand(1, 16))",
        ValueError,
        "more than 1 value",
        "BatchNorm1d",
        'mode="eval"',
    ),
    Case(
        "lamina.inspect(m.small(), torch.rand(1, 4, 8, 8))", RuntimeError, "expected input", r"0 \(Conv2d\)"
    ),
    Case("lamina.capture(m.small(), helth=True)", TypeError, "'helth'", "", "did you mean health"),
    Case("lamina.capture(7)", TypeError, "an int", "", "torch.nn.Module"),
    Case("lamina.capture(m.small()).report()", RuntimeError, "never opened", "", "with lamina.capture"),
    Case(
        "lamina.summary(m.small(), input_size=(1, 3, 8, 8))",
        TypeError,
        "'input_size'",
        "",
        r"input_shape=\(3, 224, 224\)",
    ),
    Case(
        "lamina.summary(m.small(), (1, 3, 8, 8))",
        RuntimeError,
        r"\[1, 1, 3, 8, 8\]",
        "",
        r"input_shape=\(3, 8, 8\)",
    ),
    Case("lamina.summary(m.small(), [1, 3, 8, 8])", TypeError, "input shape 1", "", r"\(3, 224, 224\)"),
    Case("lamina.summary(m.small(), (3, 8, 8), style='2')", ValueError, "style '2'", "", "0.1.2"),
    Case("lamina.profile(m.small(), x, custom_ops=3)", TypeError, "an int", "custom_ops", "a dict"),
    Case("lamina.fit(m.small(), x, dtype='fp16')", ValueError, "'fp16'", "", "did you mean float16"),
    Case("lamina.fit(m.small(), x, optimizer='adma')", ValueError, "adma", "", "adam"),
    Case(
        "lamina.fit(m.small(), (1, 3, 8, 8))", TypeError, r"\(1, 3, 8, 8\)", "", r"torch\.rand\(1, 3, 8, 8\)"
    ),
    Case("lamina.compare(m.small(), x, conventions=['exat'])", ValueError, "exat", "", "exact"),
    Case("lamina.nothing", AttributeError, "'nothing'", "module 'lamina'", "inspect"),
    Case("report.under('nobody')", ValueError, "nobody", "", "layers"),
    Case("report.why('nobody')", KeyError, "no layer at 'nobody'"),
    Case("report.rows[0].mac", AttributeError, "'mac'", "a row", "macs"),
    Case("report.show(widht=80)", TypeError, "'widht'", "a report", "width"),
    Case("report.time", ValueError, "times were not measured", "", "time=True"),
    Case("report.memory", ValueError, "memory", "", "memory=True"),
    Case("report.health", ValueError, "not checked", "", "health=True"),
    Case("layers.unused", ValueError, "report.unused needs operators", "", "ops=True"),
    Case("layers.no_gradient", ValueError, "report.no_gradient needs operators", "", "ops=True"),
    Case("layers.graph()", ValueError, "the graph needs operators", "", "ops=True"),
    Case("report.to_csv('there.csv')", FileExistsError, "there.csv", "", "overwrite=True"),
    Case("report.to_csv('no/such/folder.csv')", OSError, "there is no folder", "no/such/folder.csv"),
    Case("lamina.Report.load('nothere.json')", OSError, "there is no file", "nothere.json"),
    Case("lamina.Report.load('notes.txt')", ValueError, "no JSON", "notes.txt", "--json"),
    Case("lamina.Count(3, 'roughly')", ValueError, "'roughly'", "", "'exact', 'at least'"),
]
