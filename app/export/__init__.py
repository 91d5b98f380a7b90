"""One self-contained HTML file of one or several traces: the player's own code, no requests, no server.

Nothing here imports streamlit, so that a notebook and the command line produce the same page as the app.
"""
