"""notebook.py FILE: executes it and prints what its cells show."""

import sys

import nbclient
import nbformat

notebook = nbformat.read(sys.argv[1], 4)
nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
for cell in notebook.cells:
    for output in cell.get("outputs", []):
        print(output.get("text", ""), end="")
        for kind, content in output.get("data", {}).items():
            print(kind, content)
