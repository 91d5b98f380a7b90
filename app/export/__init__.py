"""One self-contained HTML file of one or several traces: the player's own code, nothing fetched, no server.

Nothing here imports streamlit, so that a notebook and the command line make the same page as the app.
"""
